"""What is broken on purpose, under load, and what then becomes of the data and of those who ask."""
