SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'sbtest1'
SELECT MAX(id) FROM sbtest1
INSERT INTO sbtest1 VALUES(2,2),(3,3)
