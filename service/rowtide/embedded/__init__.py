"""An engine inside the caller's process: of the prompt, and of programs in Python."""
