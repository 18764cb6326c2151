-- Orders per minute and product: from a Kafka topic into a PostgreSQL table, exactly once.

CREATE SERVER broker FOREIGN DATA WRAPPER KAFKA
  OPTIONS (bootstrap_servers 'kafka:9092');

CREATE SERVER warehouse FOREIGN DATA WRAPPER RDBMS
  OPTIONS (url 'postgresql+psycopg://rowtide@postgres:5432/rowtide');

CREATE FOREIGN STREAM orders (
  order_id   BIGINT NOT NULL,
  product    VARCHAR(20) NOT NULL,
  quantity   INTEGER NOT NULL,
  price      DECIMAL(10, 2) NOT NULL,
  ordered_at TIMESTAMP NOT NULL
) SERVER broker OPTIONS (topic 'orders', format 'JSON');

-- The time of an order becomes its ROWTIME. Orders arrive up to 30 seconds out of order.
CREATE VIEW orders_in_time AS
  SELECT STREAM ordered_at AS ROWTIME, product, quantity, quantity * price AS amount
  FROM orders
  ORDER BY ordered_at WITHIN INTERVAL '30' SECOND;

CREATE FOREIGN TABLE orders_per_minute (
  minute_end TIMESTAMP NOT NULL,
  product    VARCHAR(20) NOT NULL,
  orders     BIGINT NOT NULL,
  quantity   BIGINT NOT NULL,
  amount     DECIMAL(38, 2) NOT NULL,
  PRIMARY KEY (minute_end, product)
) SERVER warehouse;

-- A minute's row appears when its end has been reached on every partition.
CREATE PUMP fill_orders_per_minute STARTED AS
  INSERT INTO orders_per_minute (minute_end, product, orders, quantity, amount)
  SELECT STREAM ROWTIME, product, COUNT(*), SUM(quantity), SUM(amount)
  FROM orders_in_time
  GROUP BY FLOOR(ROWTIME TO MINUTE), product;
