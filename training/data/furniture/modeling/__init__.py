"""What pieces are made of: primitives, finishes, facts, the workbench, and parts that several kinds share."""
