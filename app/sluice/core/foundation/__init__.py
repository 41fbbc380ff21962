"""The base of all other packages: arrivals, ids, canonical form, the chain, records to write, errors."""
