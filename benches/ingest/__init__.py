"""The benchmark of ingestion: cost by stage, memory, a killed run resumed, searches meanwhile."""
