"""What an action would run: shell, SQL, code, requests and files, read without running them."""
