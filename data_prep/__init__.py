"""Turn raw event files into data folders: convert, synthesise, describe."""
