"""Tables as data: what was found, in words and figures. Terminal, page and Markdown draw the same ones."""
