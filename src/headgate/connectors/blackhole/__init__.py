"""Takes every row and keeps none."""
