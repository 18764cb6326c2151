-- Who sells in category 10 in some states; either may come first, by up to a year.
CREATE VIEW q3 AS
  SELECT STREAM p.name, p.city, p.state, a.id
  FROM (SELECT STREAM id, seller FROM auction WHERE category = 10) OVER (RANGE INTERVAL '365' DAY(3) PRECEDING) AS a
  JOIN (SELECT STREAM id, name, city, state FROM person WHERE state IN ('OR', 'ID', 'CA'))
    OVER (RANGE INTERVAL '365' DAY(3) PRECEDING) AS p ON a.seller = p.id;
