"""Groups that emit every change."""
