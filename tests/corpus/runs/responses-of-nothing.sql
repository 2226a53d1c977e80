UPDATE meta SET value = '{}' WHERE key IN ('responses', 'headline');
