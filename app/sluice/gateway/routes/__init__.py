"""The routes: who calls, what is asked, how committed records are told. FastAPI is imported here alone."""
