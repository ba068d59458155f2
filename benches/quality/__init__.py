"""What a search finds, and how sure it is: `python -m benches.quality`."""
