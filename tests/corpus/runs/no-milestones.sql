DELETE FROM milestone;
