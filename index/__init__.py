"""Collections: items are stored, indexed and searched here."""
