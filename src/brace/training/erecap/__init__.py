"""Training of E-RECAP's predictors: which tokens of a context what is written after it depends on."""
