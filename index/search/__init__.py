"""From queries to hits: filters, engines, rankings."""
