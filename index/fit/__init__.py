"""How the evidence of a collection is weighted: fitted on questions that its own items ask."""
