"""Looking into checkpoints: their tables as rows, SQL, differences, and what is wrong with them."""
