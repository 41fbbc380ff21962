"""Files that an action writes, by whatever means, and what will run of them by itself."""
