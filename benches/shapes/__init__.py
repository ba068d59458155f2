"""How a shape is known best: views, views read together, points."""
