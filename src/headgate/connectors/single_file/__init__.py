"""One local file of lines: read by byte offset, written exactly once by byte offset."""
