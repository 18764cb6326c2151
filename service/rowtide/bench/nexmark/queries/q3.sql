-- Who sells in category 10 in some states; either may come first, at any time.
CREATE VIEW q3 OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM p.name, p.city, p.state, a.id
  FROM (SELECT STREAM id, seller FROM auction WHERE category = 10) AS a
  JOIN (SELECT STREAM id, name, city, state FROM person WHERE state IN ('OR', 'ID', 'CA')) AS p
    ON a.seller = p.id;
