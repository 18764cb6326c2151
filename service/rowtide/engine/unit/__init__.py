"""The execution of models: labels, rowops, trays, frames, loops and traces."""
