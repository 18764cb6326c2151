-- One operator of every kind, in a pipeline whose checkpoint is kept in this folder.
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM orders (id BIGINT NOT NULL, ticker VARCHAR(8), amount INTEGER, price DECIMAL(12, 2), at TIMESTAMP)
  SERVER k OPTIONS (topic 'orders', partitions '3', format 'JSON');
CREATE FOREIGN STREAM trades (order_id BIGINT NOT NULL, ticker VARCHAR(8), volume INTEGER, rate DOUBLE)
  SERVER k OPTIONS (topic 'trades', partitions '2', format 'JSON');
CREATE VIEW timed AS
  SELECT STREAM at AS ROWTIME, id, ticker, amount, price FROM orders WHERE amount <> 13
  ORDER BY at WITHIN INTERVAL '2' SECOND;
CREATE VIEW traded AS SELECT STREAM order_id, ticker, volume, rate FROM trades ORDER BY ROWTIME WITHIN INTERVAL '1' SECOND;
CREATE TABLE tickers (ticker VARCHAR(8) NOT NULL, last_amount INTEGER, PRIMARY KEY (ticker));
CREATE TABLE codes (ticker VARCHAR(8) NOT NULL, code INTEGER, PRIMARY KEY (ticker), UNIQUE (code));
CREATE PUMP to_tickers STARTED AS INSERT INTO tickers SELECT STREAM ticker, amount FROM timed WHERE ticker IS NOT NULL;
CREATE PUMP to_codes STARTED AS INSERT INTO codes
  SELECT STREAM ticker, MOD(volume, 7) FROM traded WHERE ticker IS NOT NULL;

CREATE VIEW per_minute AS
  SELECT STREAM ROWTIME AS period, ticker, COUNT(*) AS n, SUM(price) AS total, COUNT(DISTINCT amount) AS amounts
  FROM timed GROUP BY FLOOR(ROWTIME TO MINUTE), ticker;
CREATE VIEW hopping AS
  SELECT STREAM ROWTIME AS period, ticker, MAX(amount) AS most FROM timed
  GROUP BY HOP(ROWTIME, INTERVAL '30' SECOND, INTERVAL '2' MINUTE), ticker;
CREATE VIEW sessions AS
  SELECT STREAM ROWTIME AS until, ticker, LISTAGG(CAST(volume AS VARCHAR(8)), ',') AS volumes
  FROM traded GROUP BY SESSION(ROWTIME, INTERVAL '10' SECOND), ticker;
CREATE VIEW running OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM ticker, SUM(amount) AS total, AVG(price) AS mean FROM timed WHERE ticker IS NOT NULL
  GROUP BY ticker EMIT CHANGES;
CREATE VIEW windows AS
  SELECT STREAM id, SUM(amount) OVER (PARTITION BY ticker ROWS 3 PRECEDING) AS recent,
    LAG(amount) OVER (PARTITION BY ticker) AS before,
    AVG(price) OVER (PARTITION BY ticker RANGE INTERVAL '1' MINUTE PRECEDING) AS mean FROM timed;
CREATE VIEW ahead AS
  SELECT STREAM id, LEAD(amount) OVER (PARTITION BY ticker) AS following,
    COUNT(*) OVER (RANGE BETWEEN CURRENT ROW AND INTERVAL '5' SECOND FOLLOWING) AS soon FROM timed;
CREATE VIEW matched AS
  SELECT STREAM o.id, o.amount, t.volume FROM timed AS o
  LEFT JOIN traded OVER (RANGE INTERVAL '20' SECOND FOLLOWING) AS t ON o.id = t.order_id AND t.volume > 2;
CREATE VIEW enriched AS
  SELECT STREAM t.order_id, t.rate * k.last_amount AS value FROM traded AS t JOIN tickers AS k ON t.ticker = k.ticker;
CREATE VIEW coded AS SELECT k.ticker, k.last_amount, c.code FROM tickers AS k LEFT JOIN codes AS c ON k.ticker = c.ticker;
CREATE VIEW highest AS SELECT ticker, last_amount FROM tickers ORDER BY last_amount DESC, ticker LIMIT 3;
CREATE VIEW in_order AS
  SELECT STREAM ROWTIME AS period, id, amount FROM timed ORDER BY FLOOR(ROWTIME TO MINUTE), amount DESC, id LIMIT 4;
CREATE VIEW either AS
  SELECT STREAM ROWTIME AS at, id FROM timed WHERE amount > 20
  UNION ALL SELECT STREAM ROWTIME AS at, order_id AS id FROM traded WHERE volume > 4;

CREATE FOREIGN TABLE out_minutes (period TIMESTAMP, ticker VARCHAR(8), n BIGINT, total DECIMAL(38, 2), amounts BIGINT) SERVER d;
CREATE FOREIGN TABLE out_hops (period TIMESTAMP, ticker VARCHAR(8), most INTEGER) SERVER d;
CREATE FOREIGN TABLE out_sessions (until TIMESTAMP, ticker VARCHAR(8), volumes VARCHAR(4000)) SERVER d;
CREATE FOREIGN TABLE out_running (ticker VARCHAR(8), total BIGINT, mean DECIMAL(38, 6), PRIMARY KEY (ticker)) SERVER d;
CREATE FOREIGN TABLE out_windows (id BIGINT, recent BIGINT, before INTEGER, mean DECIMAL(38, 6)) SERVER d;
CREATE FOREIGN TABLE out_ahead (id BIGINT, following INTEGER, soon BIGINT) SERVER d;
CREATE FOREIGN TABLE out_matched (id BIGINT, amount INTEGER, volume INTEGER) SERVER d;
CREATE FOREIGN TABLE out_enriched (order_id BIGINT, value DOUBLE) SERVER d;
CREATE FOREIGN TABLE out_coded (ticker VARCHAR(8), last_amount INTEGER, code INTEGER, PRIMARY KEY (ticker)) SERVER d;
CREATE FOREIGN TABLE out_highest (ticker VARCHAR(8), last_amount INTEGER, PRIMARY KEY (ticker)) SERVER d;
CREATE FOREIGN TABLE out_in_order (period TIMESTAMP, id BIGINT, amount INTEGER) SERVER d;
CREATE FOREIGN TABLE out_either (at TIMESTAMP, id BIGINT) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO out_minutes SELECT STREAM * FROM per_minute;
CREATE PUMP p2 STARTED AS INSERT INTO out_hops SELECT STREAM * FROM hopping;
CREATE PUMP p3 STARTED AS INSERT INTO out_sessions SELECT STREAM * FROM sessions;
CREATE PUMP p4 STARTED AS INSERT INTO out_running SELECT STREAM * FROM running;
CREATE PUMP p5 STARTED AS INSERT INTO out_windows SELECT STREAM * FROM windows;
CREATE PUMP p6 STARTED AS INSERT INTO out_ahead SELECT STREAM * FROM ahead;
CREATE PUMP p7 STARTED AS INSERT INTO out_matched SELECT STREAM * FROM matched;
CREATE PUMP p8 STARTED AS INSERT INTO out_enriched SELECT STREAM * FROM enriched;
CREATE PUMP p9 STARTED AS INSERT INTO out_coded SELECT * FROM coded;
CREATE PUMP p10 STARTED AS INSERT INTO out_highest SELECT * FROM highest;
CREATE PUMP p11 STARTED AS INSERT INTO out_in_order SELECT STREAM * FROM in_order;
CREATE PUMP p12 STARTED AS INSERT INTO out_either SELECT STREAM * FROM either;
