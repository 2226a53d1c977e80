UPDATE value SET value = 'much';
UPDATE trial SET elapsed_s = 'long', block = 'first', boot = x'00';
