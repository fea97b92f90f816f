from statewise.cli import main

main()
