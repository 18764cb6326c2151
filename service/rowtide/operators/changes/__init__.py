"""Groups whose every change comes out."""
