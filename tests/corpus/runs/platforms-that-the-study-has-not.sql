UPDATE trial SET platform = 'elsewhere' WHERE rowid % 2;
UPDATE meta SET value = '["native"]' WHERE key = 'platforms';
