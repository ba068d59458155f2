"""What a search finds, and how sure it is: `multifold bench quality`."""
