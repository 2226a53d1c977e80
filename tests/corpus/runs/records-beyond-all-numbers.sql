UPDATE trial SET id = 9223372036854775807, console = 'null';
