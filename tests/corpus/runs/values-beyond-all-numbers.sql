UPDATE value SET value = 9e999;
