"""Agent runtimes behind one contract, and the journal that lets a killed run go on."""
