UPDATE trial SET cell = '[]';
UPDATE trial SET cell = '{"workload": {"a": []}}' WHERE rowid % 2;
