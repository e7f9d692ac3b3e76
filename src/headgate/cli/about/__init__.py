"""Commands that say what there is here: settings, connectors, failpoints."""
