"""Index engines in this process: exact search and FAISS, their segments and files."""
