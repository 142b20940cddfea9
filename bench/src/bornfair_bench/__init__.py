"""The measurements behind the claims of bornfair, the baselines, and Fairify's method as an engine of the verifier."""
