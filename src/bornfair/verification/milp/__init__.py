"""Mixed-integer programs: a second opinion by HiGHS, whose floating-point answers are never trusted as proof."""
