"""The papers' tables by one command: what each compares is data, and its rows are trained and measured."""
