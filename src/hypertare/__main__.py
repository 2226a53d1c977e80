from hypertare.cli import main

main()
