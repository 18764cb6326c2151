"""Pages of the reference, written from declarations."""
