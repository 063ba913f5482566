"""`python -m spectral_skills.cli`: the same as the command `spectral`."""

from spectral_skills.cli.main import main

main()
