"""What ``doctor`` looks at. Nothing here changes anything."""
