"""A folder of files: read as it grows, or written exactly once, local or in an object store."""
