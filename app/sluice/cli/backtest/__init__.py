"""`sluice backtest`: its verb, its page, its words."""
