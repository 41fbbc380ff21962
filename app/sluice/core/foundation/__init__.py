"""The base of all other packages: input records, ids, canonical form, the chain, records to write, errors."""
