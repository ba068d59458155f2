"""Libraries of models on other servers, which an ingest reads."""
