"""The gateway, before a worker that the tests of this folder share."""
