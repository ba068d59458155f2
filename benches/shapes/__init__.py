"""How a shape is known best: views, points, or both."""
