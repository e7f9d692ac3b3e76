"""The Nexmark generator: an auction site's persons, auctions and bids, fixed by event number."""
