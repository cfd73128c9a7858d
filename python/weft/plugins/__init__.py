"""weft in programs and frameworks that people use already. Each module needs its package: pip install weft[NAME]."""
