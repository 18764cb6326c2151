"""Who runs what, when: labels, rowops, trays, frames, loops and traces."""
