"""The command line from outside: processes of the installed `longtask`, real repositories, real terminals."""
