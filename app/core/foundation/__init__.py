"""What everything else rests on: arrivals, ids, canonical form, the chain, records to write, errors."""
